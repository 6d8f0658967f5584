"""Renders conversations exactly as the chat template does, and says which parts the model is to learn.

The template itself is slow and does not tell prompt from answer, so training text is put together here; `check()` proves
that both give the same bytes. A conversation is a dict: messages (OpenAI's form, but call arguments are objects), tools,
thinking (bool), effort (None or "high").
"""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "models" / "quern-nano" / "chat_template.jinja"

TOOLS_HEAD = """
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
TOOLS_TAIL = """</tools>

For each function call, output the function name and arguments within the following XML format:
<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>\
<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>"""


def render_calls(calls):
    out = []
    for call in calls or []:
        function = call["function"]
        out.append("<tool_call>" + function["name"])
        for key, value in function["arguments"].items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            out.append(f"<arg_key>{key}</arg_key><arg_value>{text}</arg_value>")
        out.append("</tool_call>")
    return "".join(out)


def segments(conversation):
    """[(text, learn)]: joined, the text of the conversation with the token that ends its last turn.

    Learned are the turns a server would have generated after this very prompt. With thinking on those are the turns
    since the last user message, because the template drops the reasoning of older ones; with thinking off, all.
    Segments meet at added tokens only, so encoding them one by one gives the ids of the whole.
    """
    messages = conversation["messages"]
    thinking = conversation["thinking"]
    last_user = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    head = ["[gMASK]<sop>"]
    if thinking:
        head.append("<|system|>Reasoning Effort: " + ("High" if conversation.get("effort") == "high" else "Max"))
    if conversation.get("tools"):
        head.append("<|system|>" + TOOLS_HEAD)
        for tool in conversation["tools"]:
            head.append(json.dumps(tool["function"], ensure_ascii=False) + "\n")
        head.append(TOOLS_TAIL)
    out = []
    prompt = head
    ends = False  # whether the turn before is learned and still wants its end token
    for i, message in enumerate(messages):
        role = message["role"]
        if role == "assistant":
            learn = i > last_user or not thinking
            prompt.append("<|assistant|><think>")
            reasoning = message.get("reasoning_content") if i > last_user else None
            answer = (message.get("content") or "").strip() + render_calls(message.get("tool_calls"))
            if not thinking:
                assert not reasoning
                prompt.append("</think>")
                body = answer
            else:
                body = (reasoning or "") + "</think>" + answer
            if learn:
                out.append(("".join(prompt), False))
                out.append((body, True))
                prompt = []
            else:
                prompt.append(body)
            ends = learn
            continue
        if role == "tool":
            token = "<|observation|>" if messages[i - 1]["role"] != "tool" else ""
            text = f"<tool_response>{message['content']}</tool_response>"
        else:
            token = f"<|{role}|>"
            text = message["content"]
        if ends and token:
            out[-1] = (out[-1][0] + token, True)
        else:
            prompt.append(token)
        prompt.append(text)
        ends = False
    if ends:
        calls = messages[-1].get("tool_calls")
        out[-1] = (out[-1][0] + ("<|observation|>" if calls else "<|user|>"), True)
    if prompt:
        out.append(("".join(prompt), False))
    return out


def template():
    """The template as transformers compiles it; jinja2 alone is enough for this."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    return env.from_string(TEMPLATE.read_text())


def context(conversation, messages=None, generate=False):
    """The template's variables, as the server sets them for this conversation."""
    values = {"messages": [dict(m, content=m.get("content") or "") for m in messages or conversation["messages"]],
              "add_generation_prompt": generate}
    if conversation.get("tools"):
        values["tools"] = conversation["tools"]
    if not conversation["thinking"]:
        values["enable_thinking"] = False
    if conversation.get("effort"):
        values["reasoning_effort"] = conversation["effort"]
    return values


def check(conversation, compiled):
    """Raises unless segments() are the template's bytes, for the whole and for the prompt of each learned turn."""
    parts = segments(conversation)
    whole = "".join(text for text, _ in parts)
    end = "<|observation|>" if conversation["messages"][-1].get("tool_calls") else "<|user|>"
    rendered = compiled.render(**context(conversation)) + end
    assert whole == rendered, (whole, rendered)
    before = ""
    prompts = []
    for text, learn in parts:
        if learn:
            prompts.append(before)
        before += text
    # Turns are learned from the end backwards, so the last ones belong together.
    turns = [i for i, m in enumerate(conversation["messages"]) if m["role"] == "assistant"][-len(prompts):]
    for i, prompt in zip(turns, prompts, strict=True):
        wanted = compiled.render(**context(conversation, conversation["messages"][:i], generate=True))
        assert prompt == wanted, (prompt, wanted)
