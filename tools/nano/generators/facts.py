"""Facts hidden in long passages of filler, asked for at the end (or, sometimes, at the start).

The answer repeats the sentence of the fact, so finding it is the whole task. Other facts in the passage share its
attribute or its place, so that looking for one word is not enough.
"""

from .build import assistant, conversation, user
from .words import CITIES, COLOURS, NAMES

PLACE_KINDS = """archive garden tower harbour library station workshop museum bridge mill market school bakery cellar
chapel gallery stable factory theatre lighthouse""".split()
PLACE_NAMES = """north south east west old new upper lower central royal grand little quiet hidden stone iron river forest
winter summer northern coastal""".split()
ATTRIBUTES = {
    "access code": "number", "room number": "number", "opening year": "year", "budget": "number", "phone extension": "number",
    "keeper": "name", "director": "name", "founder": "name", "door colour": "colour", "flag colour": "colour",
    "sister city": "city", "next stop": "city", "password": "word",
}
PASSWORDS = """maple copper lantern velvet thunder pebble saffron meadow falcon orchid marble ember willow anchor cobalt
harvest juniper comet tulip walnut crystal raven pepper island""".split()

SUBJECTS = """the farmer|the baker|the teacher|an old sailor|a young painter|the gardener|the clerk|the miller|a tired
traveller|the doctor|the driver|a small child|the librarian|the fisherman|the tailor|the mayor|a friendly neighbour|the
watchmaker|the postman|the cook|the grey cat|the brown dog|a flock of birds|the shepherd|the carpenter|a visitor""".replace("\n", " ").split("|")
VERBS = """walked along|looked at|talked about|sat down near|waited for|remembered|painted|wrote about|dreamed of|passed
by|pointed at|cleaned|went around|asked about|sang about|laughed at|stayed close to|read about|stood before|thought of""".replace("\n", " ").split("|")
OBJECTS = """the river|the long road|a wooden fence|the tall trees|the empty field|a pile of hay|the village square|the
old well|a basket of bread|the morning train|the church bells|a broken cart|the green hills|the wide lake|a stone wall|the
ripe corn|a quiet street|the blue boat|the open window|a cup of tea|the warm oven|the first snow|a bright lamp|the
kitchen table""".replace("\n", " ").split("|")
WHEN = """in the morning|in the evening|after lunch|before dawn|on a rainy day|at noon|late at night|in early spring|during
the harvest|for a while|without a word|once again|as always|with a smile|in the cold wind|under a clear sky|for the last
time|just like last year|every other day|until it was dark""".replace("\n", " ").split("|")
NATURE = """The wind was soft|The rain came down slowly|The sun stood high|The clouds moved fast|The leaves turned red|The
fields were dry|The air smelled of smoke|The water was cold|The road was muddy|The night was calm|The grass grew tall|The
frost came early""".replace("\n", " ").split("|")
AFTER = """and nobody spoke|and the day went on|so the shop stayed closed|but it did not matter|and the lamps were lit|so
people stayed at home|and the children played|but the work was done|and the horses rested|so everyone was glad""".replace("\n", " ").split("|")


def filler(rng):
    """One sentence that states nothing anybody would ask for."""
    pick = rng.random()
    if pick < 0.6:
        subject = rng.choice(SUBJECTS)
        if rng.random() < 0.35:
            when = rng.choice(WHEN)
            return f"{when[0].upper()}{when[1:]} {subject} {rng.choice(VERBS)} {rng.choice(OBJECTS)}."
        return f"{subject[0].upper()}{subject[1:]} {rng.choice(VERBS)} {rng.choice(OBJECTS)} {rng.choice(WHEN)}."
    if pick < 0.8:
        return f"{rng.choice(NATURE)} {rng.choice(WHEN)}, {rng.choice(AFTER)}."
    return f"{rng.choice(NATURE)}, and {rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}."


def value(rng, kind):
    if kind == "number":
        return str(rng.randint(100, 9999))
    if kind == "year":
        return str(rng.randint(1700, 1999))
    return rng.choice({"name": NAMES, "colour": COLOURS, "city": CITIES, "word": PASSWORDS}[kind])


def make_facts(rng, count):
    """[(attribute, place, value)], no two with the same attribute and place."""
    facts, seen = [], set()
    attributes = list(ATTRIBUTES)
    while len(facts) < count:
        attribute = rng.choice(attributes)
        place = f"{rng.choice(PLACE_NAMES)} {rng.choice(PLACE_KINDS)}"
        if facts and rng.random() < 0.5:
            # A distractor: the attribute or the place of a fact that is there already.
            other = rng.choice(facts)
            if rng.random() < 0.5:
                attribute = other[0]
            else:
                place = other[1]
        if (attribute, place) not in seen:
            seen.add((attribute, place))
            facts.append((attribute, place, value(rng, ATTRIBUTES[attribute])))
    return facts


def sentence(fact):
    return f"The {fact[0]} of the {fact[1]} is {fact[2]}."


def question(rng, fact):
    return rng.choice([
        "What is the {0} of the {1}?", "What is the {0} of the {1}?", "Tell me the {0} of the {1}.",
        "Find the {0} of the {1}.", "I need the {0} of the {1}.", "Which is the {0} of the {1}?",
    ]).format(*fact)


def passage(rng, facts, tokens):
    """Filler of about so many tokens; the facts lie anywhere in it."""
    sentences, used = [], sum(len(sentence(f)) / 4.6 for f in facts)
    while used < tokens:
        text = filler(rng)
        sentences.append(text)
        used += len(text.split()) * 1.0 + 1.4
    # Slots first, then insertion from the back, spread every fact evenly and independently over the whole length.
    for slot, fact in sorted(((rng.randint(0, len(sentences)), f) for f in facts), reverse=True):
        sentences.insert(slot, sentence(fact))
    if len(sentences) > 12 and rng.random() < 0.5:
        for i in range(rng.randint(5, 9), len(sentences), rng.randint(6, 12)):
            sentences[i] = "\n" + sentences[i]
    return " ".join(sentences).replace(" \n", "\n")


BUCKETS = [(128, 16), (256, 24), (512, 18), (1024, 20), (2048, 12), (4096, 8)]
INTRO = ["Read the passage.", "Here is a text.", "Read this carefully.", "Passage:", "Here are my notes.", "Text:", "Read the text below."]


def make(rng, thinking, tokens=None, turns=None):
    """`tokens`: about the length of the whole prompt."""
    dense = tokens is None and rng.random() < 0.35
    if dense:
        # Facts and hardly anything else, most of them asked for: the densest way to practise finding.
        tokens = rng.randint(150, 600)
        turns = 1 if thinking else rng.randint(4, 12)
    elif tokens is None:
        top = rng.choices([b for b, _ in BUCKETS], [w for _, w in BUCKETS])[0]
        tokens = top if rng.random() < 0.4 else rng.randint(top // 2, top)
    if turns is None:
        turns = 1 if thinking or rng.random() < 0.2 else rng.randint(2, 6 if tokens < 1500 else 12)
    room = max(tokens - 70 - 32 * (turns - 1), 40)
    count = room // 14 if dense else max(turns, rng.randint(2, 3 + min(tokens // 60, 12)))
    facts = make_facts(rng, min(count, max(turns, room // 14)))
    text = f"{rng.choice(INTRO)}\n\n{passage(rng, facts, room)}"
    asked = rng.sample(facts, min(turns, len(facts)))
    messages = []
    for i, fact in enumerate(asked):
        ask = question(rng, fact)
        if i == 0 and rng.random() < 0.12:
            messages.append(user(f"{ask}\n\n{text}"))
        else:
            messages.append(user(f"{text}\n\nQuestion: {ask}" if i == 0 else ask))
        messages.append(assistant(sentence(fact), f"The passage says: {sentence(fact)}" if thinking else None))
    return conversation(messages, thinking, {"kind": "contains", "text": asked[-1][2]})
