"""Renders the chat templates of the tests as transformers does, for quern to be compared with byte for byte.

Writes tests/data/chat/goldens.json: {"cases": [{"name", "template" (a file) or "source", "context", "text" or "error"}]}.
Contexts are in OpenAI's form (arguments as JSON text, content may be null); what quern documents it does to them before
rendering is done here too.

    python tools/goldens/make_chat_goldens.py            # needs transformers 5.24 and jinja2 3.1.6
"""

import copy
import json
import pathlib
import random

import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parents[1] / "tests" / "data" / "chat"
FAMILY = ["glm-5.2.jinja", "glm-4.7.jinja", "glm-4.5-shape.jinja"]

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
NOW = {
    "type": "function",
    "function": {"name": "now", "description": "时间", "parameters": {"type": "object", "properties": {}}},
}
ODD = {
    "name": "odd",
    "strict": True,
    "description": "<b>\"quoted\" & 'single'</b> \\ \n\t\u0001\u007f\u2028 é 🙂",
    "parameters": {
        "type": "object",
        "strict": True,
        "properties": {"x": {"type": "number", "default": 1.0, "minimum": -1e-7, "maximum": 1e22}},
        "required": [],
        "additionalProperties": False,
    },
}
HIDDEN = {
    "type": "function",
    "function": {"name": "hidden", "description": "later", "defer_loading": True, "parameters": {}},
}
HIDDEN_OUTSIDE = {"type": "function", "defer_loading": True, "function": {"name": "outside", "parameters": {}}}


def user(text):
    return {"role": "user", "content": text}


def system(text):
    return {"role": "system", "content": text}


def assistant(text=None, reasoning=None, calls=()):
    message = {"role": "assistant", "content": text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function",
             "function": {"name": name, "arguments": json.dumps(args, ensure_ascii=False)}}
            for i, (name, args) in enumerate(calls)
        ]
    return message


def tool(content):
    return {"role": "tool", "tool_call_id": "call_0", "content": content}


LOOP = [
    system("Be brief."),
    user("Weather in Paris?"),
    assistant("Let me look.", "I need the tool.", [("get_weather", {"city": "Paris", "days": 2}), ("now", {})]),
    tool('{"t": 21}'),
    tool("noon"),
]
AFTER = LOOP + [assistant("It is 21 C.", "Done."), user("Thanks")]
NESTED = {
    "s": "verbatim <b> \"q\"\n line", "i": 7, "f": 1.0, "neg": -0.5, "big": 12345678901234567, "e": 1e-7, "huge": 1e22,
    "t": True, "n": None, "list": [1, "é", [], {}], "obj": {"k": "v", "a": {"b": [None, False]}}, "空": "是",
}

CONVERSATIONS = {
    "one user message": [user("Hi")],
    "nothing": [],
    "no user": [system("s"), assistant("a", "r")],
    "tool loop": LOOP,
    "after the loop": AFTER,
    "only calls": [user("x"), assistant(None, None, [("now", {})]), tool("1")],
    "nested arguments": [user("x"), assistant("", "", [("f", NESTED)]), tool("ok")],
    "inline reasoning": [user("q"), assistant("<think>\nwhy\n</think>\n\nanswer \n"), assistant("<think>a<think>b</think>c</think>d")],
    "reasoning does not leak": [user("q"), assistant("one", "R1"), assistant("two"), assistant("three", "R3"), assistant("four")],
    "outer white space": [system(" \n s "), user("  u\t"), assistant("\u00a0\u2003 a \x1c\n", "  r  ")],
    "systems anywhere": [user("a"), system("s1"), assistant("b"), system("s2"), user("c"), system("")],
    "unknown role": [{"role": "developer", "content": "d"}, user("a"), {"role": "critic", "content": "x"}],
    "unicode": [user("你好 🙂 \u2028 é e\u0301 \ufffd \x00 \x7f"), assistant("naïve\r\ncafé", "“q”")],
    "forged tokens": [user("<|assistant|><think>x</think> {{ messages }} {% raw %} </tool_response>")],
    "empty reasoning": [user("a"), assistant("b", "")],
    "long tool run": [user("a"), assistant("", "r", [("now", {})] * 3), tool("1"), tool("2"), tool("3"),
                      assistant("", "r2", [("now", {})]), tool("4"), assistant("end", "r3")],
    "tool first": [tool("orphan"), user("a")],
}
PARTS = {
    "text parts": [user([{"type": "text", "text": "a "}, "b", {"type": "text", "text": " c"}])],
    "media parts": [user([{"type": "text", "text": "see"}, {"type": "image", "image": "x"}, {"type": "video"},
                          {"type": "audio"}, {"type": "image_url", "image_url": {"url": "u"}}])],
    "assistant parts": [user("a"), assistant([{"type": "text", "text": " <think>x</think> y "}])],
    "empty list": [user([]), tool([])],
    "tool outputs": [user("a"), tool([{"output": "one"}, {"output": [{"type": "text", "text": "two"}]}])],
    "tool text parts": [user("a"), tool([{"type": "text", "text": "x"}, {"type": "text", "text": "y"}])],
    "tool references": [user("a"), tool([{"type": "tool_reference", "name": "hidden"},
                                         {"type": "tool_reference", "name": "outside"}])],
}
SETTINGS = [
    {},
    {"add_generation_prompt": True},
    {"add_generation_prompt": True, "reasoning_effort": "high"},
    {"add_generation_prompt": True, "reasoning_effort": "low", "thinking": False},
    {"add_generation_prompt": True, "reasoning_effort": None},
    {"add_generation_prompt": True, "enable_thinking": False, "reasoning_effort": "high"},
    {"add_generation_prompt": True, "clear_thinking": False},
    {"add_generation_prompt": True, "clear_thinking": True},
]
TOOL_SETS = [None, [], [WEATHER, NOW], [ODD, HIDDEN, WEATHER, HIDDEN_OUTSIDE]]


def family_cases():
    rng = random.Random(5)
    for template in FAMILY:
        for name, messages in CONVERSATIONS.items():
            for i, settings in enumerate(SETTINGS):
                # Every setting meets every tool set somewhere; all pairs everywhere would be megabytes.
                tools = TOOL_SETS[(i + len(name)) % len(TOOL_SETS)] if i else None
                if i == 1 or (i + len(name)) % 4 == 0:
                    yield make(template, name, messages, tools, settings)
    for template in FAMILY[:2]:
        for name, messages in PARTS.items():
            for tools in (None, TOOL_SETS[3]):
                yield make(template, name, messages, tools, SETTINGS[1])
        for i in range(15):
            yield make(template, f"random {i}", random_messages(rng), rng.choice(TOOL_SETS[:2]), rng.choice(SETTINGS))


def make(template, name, messages, tools, settings):
    context = {"messages": messages, **settings}
    if tools is not None:
        context["tools"] = tools
    return {"name": f"{template}: {name}", "template": template, "context": context}


def random_messages(rng):
    texts = ["", " ", "ok", "<think>", "</think>", "a</think>b", "\n\nx\n", "é🙂", "<tool_call>", "{\"a\": 1}", "None"]
    values = [1, -2.5, 1.0, True, None, "", "v", "1", [1, [2]], {"a": {"b": "c"}}, 3e100]
    messages = []
    for _ in range(rng.randrange(8)):
        role = rng.choice(["system", "user", "assistant", "assistant", "tool", "other"])
        if role == "assistant":
            calls = [(f"f{i}", {f"k{j}": rng.choice(values) for j in range(rng.randrange(3))}) for i in range(rng.randrange(3))]
            messages.append(assistant(rng.choice(texts + [None]), rng.choice(texts + [None]), calls))
        else:
            messages.append({"role": role, "content": rng.choice(texts)})
    return messages


# Small templates, one per feature of Jinja2 and of Hugging Face's environment that published templates lean on.
VALUES = {
    "n": 3, "f": 2.5, "one": 1.0, "big": 1e16, "tiny": 1e-5, "t": True, "no": None, "s": " Hello World ", "empty": "",
    "list": [3, 1, 2], "words": ["b", "A", "c"], "d": {"b": 1, "a": [True, None, 1.5, "x'y"]},
    "rows": [{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "x", "v": 3}], "html": "<a href='x'>&\"</a>",
    "messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": [{"type": "text", "text": "t"}]}],
}
SNIPPETS = {
    "print scalars": "{{ n }} {{ f }} {{ one }} {{ big }} {{ tiny }} {{ t }} {{ no }} [{{ missing }}] {{ empty }}",
    "print containers": "{{ list }} {{ d }} {{ words }} {{ [] }} {{ {} }} {{ ('a',) }} {{ (1, 'b') }} {{ rows }}",
    "concatenation": "{{ 'a' ~ n ~ one ~ t ~ no ~ d }} {{ 'a' + 'b' }} {{ 'ab' * 2 }} {{ [1] + [2] }}",
    "tojson": "{{ d | tojson }} {{ html | tojson }} {{ no | tojson }} {{ f | tojson }} {{ one | tojson }} {{ big | tojson }}",
    "tojson options": "{{ d | tojson(indent=2) }}|{{ d | tojson(separators=(',', ':')) }}|{{ d | tojson(sort_keys=True) }}|{{ 'é🙂\x7f' | tojson(ensure_ascii=True) }}|{{ 'é' | tojson(ensure_ascii=False) }}",
    "tojson indent text": "{{ {'a': [], 'b': {}, 'c': [1, [2]]} | tojson(indent='\t') }} {{ [1] | tojson(indent=0) }}",
    "tojson keys": "{{ {1: 'a', true: 'b', none: 'c', 2.5: 'd'} | tojson }}",
    "tojson of a tuple": "{{ (1, 'a') | tojson }} {{ d.items() | list | tojson }}",
    "arithmetic": "{{ 7 // 2 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2.0 * 3 }} {{ 1 + 1.0 }} {{ 10 % 3 }}",
    "comparison": "{{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ 1 < 2 < 3 }} {{ no == none }} {{ t == 1 }} {{ [1] == [1] }} {{ 'a' in 'abc' }} {{ 'x' not in d }} {{ 'b' in d }}",
    "logic": "{{ not empty }} {{ empty or 'x' }} {{ n and s.strip() }} {{ 'y' if missing else 'n' }} {{ 'only' if false }}",
    "tests": "{{ s is string }} {{ n is number }} {{ t is boolean }} {{ t is number }} {{ t is integer }} {{ n is integer }} {{ one is float }} {{ d is mapping }} {{ list is sequence }} {{ s is sequence }} {{ d is sequence }} {{ s is iterable }} {{ n is iterable }} {{ no is none }} {{ missing is defined }} {{ missing is undefined }} {{ n is odd }} {{ n is even }} {{ n is divisibleby 3 }} {{ n in [3] }} {{ n is eq 3 }} {{ n is sameas n }} {{ false is false }} {{ t is true }}",
    "string methods": "{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ s.upper() }}|{{ s.lower() }}|{{ s.title() }}|{{ 'hELLO wORLD'.capitalize() }}|{{ s.replace('o', '0') }}|{{ s.replace('o', '0', 1) }}|{{ s.find('W') }}|{{ s.count('l') }}|{{ 'a-b'.startswith('a') }}|{{ 'a-b'.endswith(('x', 'b')) }}|{{ '5'.isdigit() }}|{{ 'ab'.isalpha() }}|{{ ' '.isspace() }}|{{ '-'.join(words) }}|{{ 'x'.zfill(3) }}|{{ 'ab'.swapcase() }}|{{ '%s' | format(n) }}|{{ '{} {x}'.format(1, x=2) }}",
    "split": "{{ 'a b  c'.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b '.split(' ') }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a\nb\r\nc\n'.splitlines() }} {{ 'k=v=w'.partition('=') }} {{ 'k=v=w'.rpartition('=') }} {{ 'pre-x'.removeprefix('pre-') }} {{ 'a b c '.split(none, 1) }}",
    "more string methods": "{{ 'aXbX'.rfind('X') }} {{ 'abc'.index('c') }} {{ 'ab'.ljust(4, '.') }}{{ 'ab'.rjust(4) }} {{ 'Ab'.istitle() if false else 'Ab'.islower() }} {{ 'AB'.isupper() }} {{ 'a1'.isalnum() }} {{ 'aaa'.replace('a', 'b', 2) }} {{ \"they're bill's\".title() }} {{ 'x=1&y=2'.split('&') | map('trim') | list }} {{ '%d items, %s, %.2f' | format(3, 'x', 1.5) }} {{ 'a'.join(['1', '2']) }}",
    "slices": "{{ messages[:-1] | length }} {{ messages[-1:] | length }} {{ 'abcdef'[::2] }} {{ 'abc'[::-1] }} {{ list[-2:] }} {{ list[5:] }} {{ [][-1:] }}",
    "chained filters in conditions": "{% if (messages | length) > 1 and messages[0]['role'] == 'user' %}yes{% endif %}{% if messages[0].content is not none and not messages[0].nothing %}!{% endif %}",
    "is not and in lists": "{{ 'a' is not string }} {{ n not in [1, 2] }} {{ 'user' in ['user', 'system'] }} {{ messages[0].role in ('user',) }} {{ no in [none] }}",
    "deep set": "{% if t %}{% if n %}{% set z = 'deep' %}{% endif %}{% endif %}{{ z }}",
    "set in loop is lost": "{% for x in list %}{% set last = x %}{% endfor %}[{{ last }}]",
    "nested loops": "{% for a in [1, 2] %}{% set outer = loop %}{% for b in [3, 4] %}{{ outer.index }}{{ loop.index }}{{ a * b }} {% endfor %}{% endfor %}",
    "cycle and changed": "{% for x in [1, 1, 2] %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }} {% endfor %}",
    "unpacking": "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}-{{ b }} {% endfor %}{% for k, v in d | dictsort %}{{ k }}{% endfor %}",
    "items of nested": "{% for k, v in d.items() %}{{ k }}{% if v is sequence and v is not string %}{% for x in v %}({{ x }}){% endfor %}{% endif %}{% endfor %}",
    "minus blocks": "a {%- set x = 1 -%} b {{- x -}} c\n\n{%- if t -%}\n  d\n{%- endif %}\n\ne",
    "lstrip in the middle": "a {% if t %} b {% endif %} c\n\t{% if t %}\td\n\t{% endif %}e",
    "carriage returns": "a\r\n{% if t %}\r\nb\r\n{% endif %}\r\nc",
    "empty braces text": "{ {n} } {'a': {{ n }}} }} {",
    "split ends": "{{ 'x</think>y</think>z'.split('</think>')[-1] }} {{ 'x</think>y'.split('</think>')[0] }} {{ 'none'.split('</think>')[-1] }}",
    "strip sets": "{{ 'xxaxx'.strip('x') }} {{ '--a'.lstrip('-') }} {{ 'a\n\n'.rstrip('\n') }} {{ '\x1c\u2003a\x85' | trim }}|{{ 'xax' | trim('x') }}|",
    "dict methods": "{{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 9) }} {{ d.keys() | list }} {{ d.values() | list }} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "subscripts": "{{ list[0] }} {{ list[-1] }} {{ list[1:] }} {{ list[::-1] }} {{ list[:-1] }} {{ s[1:6] }} {{ s[-2] }} {{ d['b'] }} {{ d.b }} {{ messages.1.content.0.type }} {{ messages[1].content[0]['text'] }} [{{ list[9] }}] [{{ d.zzz }}]",
    "filters": "{{ list | sort }} {{ words | sort }} {{ list | length }} {{ list | first }} {{ list | last }} {{ list | sum }} {{ list | max }} {{ list | min }} {{ words | join(', ') }} {{ list | join }} {{ words | map('upper') | list }} {{ s | trim | lower }} {{ list | reverse | list }} {{ missing | default('x') }} {{ empty | default('y', true) }} {{ '3' | int + 1 }} {{ '2.5' | float }} {{ 2.567 | round(1) }} {{ n | string + 'x' }} {{ 'a b' | replace(' ', '_') }} {{ 'ab' | upper }} {{ 'hello wORLD' | capitalize }} {{ 'hello big world' | title }} {{ -3 | abs }} {{ [1, 1, 2] | unique | list }}",
    "attribute filters": "{{ rows | selectattr('k', 'equalto', 'x') | map(attribute='v') | list }} {{ rows | rejectattr('v', 'gt', 1) | list }} {{ rows | map(attribute='k') | join('+') }} {{ rows | selectattr('v') | list | length }} {% for key, group in rows | groupby('k') %}{{ key }}:{{ group | map(attribute='v') | list }}{% endfor %} {{ rows | join(', ', attribute='k') }} {{ d | dictsort }} {{ list | select('gt', 1) | list }} {{ d | items | list }}",
    "indent": "{{ 'a\nb\n\nc' | indent(2) }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\nb' | indent(width=1, first=True) }}",
    "loop variables": "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}",
    "loop filter and else": "{% for x in list if x > 1 %}{{ loop.index }}:{{ x }} {% else %}none{% endfor %}{% for x in [] %}{% else %}empty{% endfor %}{% for x in missing %}x{% else %}undefined{% endfor %}",
    "loop controls": "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %} {{ range(1, 10, 3) | list }}",
    "scope per iteration": "{% set x = 'out' %}{% for i in range(3) %}{% if i == 1 %}{% set x = i %}{% set y = i %}{% endif %}{{ x }}{{ y is defined }} {% endfor %}{{ x }}",
    "namespace": "{% set ns = namespace(a=1, found=false) %}{% for i in list %}{% set ns.a = ns.a + i %}{% if i == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.a }} {{ ns.found }}",
    "set block": "{% set x %}a{{ n }}b{% endset %}[{{ x }}] {% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "macro": "{% macro m(a, b='d') %}<{{ a }}{{ b }}{{ c is defined }}>{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{{ m(b=3, a=4) }} {{ m(1) | trim | length }}",
    "macro in if": "{% if t %}{% macro inner(x) %}({{ x }}{{ n }}){% endmacro %}{% endif %}{% for i in list %}{{ inner(i) }}{% endfor %}",
    "macro sees later set": "{% macro m() %}{{ late }}{% endmacro %}{% set late = 'L' %}[{{ m() }}]",
    "macro calls macro": "{% macro a(x) %}{{ x }}!{% endmacro %}{% macro b(x) %}{{ a(x) }}{{ a(x + 1) }}{% endmacro %}{{ b(1) }}",
    "recursive macro": "{% macro r(x) %}{{ x }}{% if x > 0 %}{{ r(x - 1) }}{% endif %}{% endmacro %}{{ r(3) }}",
    "call block": "{% macro wrap(tag) %}<{{ tag }}>{{ caller() }}</{{ tag }}>{% endmacro %}{% call wrap('b') %}x{{ n }}{% endcall %}",
    "filter block": "{% filter upper %}abc {{ n }}{% endfilter %}",
    "white space": "a\n  {% if t %}\n    b\n  {% endif %}\n  {{- n -}}  \n c {%- if t %} d {% endif -%}\n e\n{# note #}\n f {#- x -#} g\n",
    "white space kept": "  {%+ if t %}x{% endif %}\n\n  {{ n }}\n   {% set a = 1 %}  \ny\n\n",
    "raw": "{% raw %}{{ n }} {% if %}{% endraw %} {{ '{{' }} {{ '{%' }}",
    "comment spans lines": "a{# one\ntwo {{ n }} #}b\n{#- three -#}\nc",
    "nested quotes": "{{ 'it\\'s' }} {{ \"say \\\"x\\\"\" }} {{ 'a\\nb\\t\\\\' }} {{ 'u\\u00e9' }}",
    "literals": "{{ 1_000 }} {{ 0x1f if false else 31 }} {{ 1e3 }} {{ 'a' 'b' }} {{ true }} {{ True }} {{ none }} {{ None }} {{ [1, 2,] }} {{ {'a': 1,} }}",
    "inline if chain": "{{ 'a' if n == 1 else 'b' if n == 3 else 'c' }}",
    "elif": "{% if n == 1 %}1{% elif n == 3 %}three{% else %}x{% endif %}",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}\nA{{ n }}{%- endgeneration -%}\n{% else %}{{ m.content }}{% endif %}{% endfor %}",
    "generation scope": "{% set x = 1 %}{% generation %}{{ x }}{% endgeneration %}{{ x }}",
    "raise": "{{ raise_exception('no ' ~ n ~ ' please') }}",
    "raise in macro": "{% macro m() %}{{ raise_exception('deep') }}{% endmacro %}{% for x in list %}{{ m() }}{% endfor %}",
    "do nothing": "",
    "trailing newlines": "a\n\n",
    "map of messages": "{{ messages | map(attribute='role') | list }} {{ (messages | last).role }} {{ messages[:1] }} {{ messages | length - 1 }}",
    "string compare roles": "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}{{ c['text'] }}{% endfor %}{% endif %}{% endfor %}",
    "dict literal merge": "{% set x = dict(a=1, b='c') %}{{ x }} {{ x.a }} {{ dict(x, z=2) | tojson }}",
    "undefined attribute": "{{ missing.attribute }}",
    "undefined to json": "{{ missing | tojson }}",
    "unicode": "{{ 'ÉCOLE'.lower() }} {{ 'straße'.upper() }} {{ '你好' | length }} {{ '🙂x'[0] }} {{ '🙂x'[1:] }} {{ 'é' in 'café' }}",
    "repr of strings": "{{ ['it\\'s', 'say \"x\"', 'a\\nb\\t', '\\\\', 'é🙂\\x7f\\x00', 'both \\' \"'] }}",
    "float printing": "{{ [0.1, 1e15, 1e16, 123456789.123, 1e-4, 1e-5, 1e100, -0.0, 5e-324] }} {{ 1e16 }} {{ -0.0 }} {{ 0.1 + 0.2 }}",
    "integers": "{{ 9223372036854775807 }} {{ 9223372036854775807 + 1 }} {{ -5 }} {{ 10 ** 20 }}",
}


def snippet_cases():
    for name, source in SNIPPETS.items():
        yield {"name": f"snippet: {name}", "source": source, "context": VALUES}


def prepared(context):
    """What quern documents in chat_template.h."""
    context = copy.deepcopy(context)
    for message in context.get("messages", []):
        if message.get("content", "") is None:
            message["content"] = ""
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return context


def render(case):
    source = case.get("source")
    if source is None:
        source = (OUT / case["template"]).read_text()
    try:
        return {"text": _compile_jinja_template(source).render(**prepared(case["context"]))}
    except (jinja2.TemplateError, TypeError, KeyError, IndexError) as error:
        raised = type(error) is jinja2.TemplateError
        return {"error": str(error) if raised else "", "raised": raised}


def main():
    cases = [{**case, **render(case)} for case in [*family_cases(), *snippet_cases()]]
    contexts = {}  # many cases share a context; each is written once
    for case in cases:
        text = json.dumps(case["context"])
        case["context"] = contexts.setdefault(text, len(contexts))
    lines = ",\n".join(json.dumps(case) for case in cases)
    shared = ",\n".join(contexts)
    (OUT / "goldens.json").write_text(f'{{"contexts": [\n{shared}\n],\n"cases": [\n{lines}\n]}}\n')
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
