"""Word problems of one to three steps, and drills.

A small model adds digit by digit at best, so every step is one operation on numbers that stand in the text before it,
and the wording of the reasoning is always the same: what happens, the operation, its result.
"""

from .build import LEADS, TAILS, assistant, conversation, user
from .words import DAYS, MEN, NAMES, THINGS

SINGULAR_PLACES = "box bag basket shelf drawer tray jar crate".split()
PLURAL = {"box": "boxes", "shelf": "shelves"}
GAIN = ["buys {n} more", "finds {n} more", "gets {n} more from {b}", "wins {n} more", "collects {n} more"]
LOSS = ["gives {n} to {b}", "loses {n}", "sells {n}", "gives away {n}", "lends {n} to {b}"]
ASK = ["How many {t} does {a} have now?", "How many {t} does {a} have in the end?", "How many {t} does {p} have now?",
       "How many {t} does {p} have in the end?"]
LEAD = ["", "", "", *LEADS]
TAIL = ["", "", "", *TAILS]


def plural(place):
    return PLURAL.get(place, place + "s")


def small(rng):
    """A number to add or take away. Few enough that a small model meets each sum some dozens of times."""
    pick = rng.random()
    return rng.randint(2, 9) if pick < 0.7 else rng.randint(10, 12) if pick < 0.85 else rng.choice([10, 20, 30])


def tens_above(rng, value):
    """A round amount that leaves something when `value` is taken away."""
    return rng.choice([t for t in (10, 20, 30, 40, 50, 60, 80, 100) if t > value][:3])


class Problem:
    """Collects sentences, steps and the value so far."""

    def __init__(self, rng):
        self.rng = rng
        self.a, self.b = rng.sample(NAMES, 2)
        self.t = rng.choice(THINGS)
        self.pronoun = "he" if self.a in MEN else "she"
        self.text = []
        self.steps = []
        self.value = 0

    def fill(self, template, n):
        return template.format(n=n, a=self.a, b=self.b, t=self.t, p=self.pronoun)

    def step(self, label, x, op, y):
        value = {"+": x + y, "-": x - y, "*": x * y, "/": x // max(y, 1)}[op]
        self.steps.append(f"{label}: {x} {op} {y} = {value}.")
        self.value = value

    def start(self):
        """An amount to begin with: given, or boxes times content."""
        rng = self.rng
        if rng.random() < 0.6:
            self.value = rng.randint(5, 60)
            self.text.append(self.fill(rng.choice(["{a} has {n} {t}.", "{a} owns {n} {t}.", "{a} starts with {n} {t}."]), self.value))
            self.steps.append(f"Start: {self.value}.")
        else:
            places, each = rng.randint(2, 9), rng.randint(2, 9)
            place = plural(rng.choice(SINGULAR_PLACES))
            self.text.append(f"{self.a} has {places} {place} with {each} {self.t} each.")
            self.step("Start", places, "*", each)

    def change(self):
        rng = self.rng
        options = ["gain"]
        if self.value >= 8:
            options += ["loss", "loss"]
        if self.value <= 9:
            options += ["times"]
        if self.value > 80:
            options = ["loss"]
        divisors = [d for d in range(2, 10) if self.value % d == 0 and 2 <= self.value // d <= 9]
        if divisors:
            options += ["share"]
        kind = rng.choice(options)
        who = rng.choice([self.a, "Then " + self.a, f"On {rng.choice(DAYS)} {self.a}",
                          self.pronoun.capitalize(), f"Then {self.pronoun}"])
        if kind == "gain":
            n = small(rng)
            self.text.append(f"{who} {self.fill(rng.choice(GAIN), n)}.")
            self.step("More", self.value, "+", n)
        elif kind == "loss":
            n = min(small(rng), self.value - 2)
            self.text.append(f"{who} {self.fill(rng.choice(LOSS), n)}.")
            self.step("Less", self.value, "-", n)
        elif kind == "times":
            n = rng.randint(2, 9)
            word = {2: "doubles", 3: "triples"}.get(n)
            if word:
                self.text.append(f"{who} {word} this number.")
            else:
                self.text.append(f"{who} makes it {n} times as many.")
            self.step("Times", self.value, "*", n)
        else:
            n = rng.choice(divisors)
            self.text.append(f"{who} shares them equally among {n} people, {self.a} included.")
            self.step("Share", self.value, "/", n)
        return kind


def holdings(rng):
    p = Problem(rng)
    p.start()
    for _ in range(rng.choice([1, 1, 2, 2, 3] if len(p.steps[0]) < 12 else [0, 1, 1, 2])):
        if p.change() == "share":
            break
    ask = p.fill(rng.choice(ASK), 0)
    return p, ask


def shopping(rng):
    """Prices: items times price, a sum, change from a note."""
    p = Problem(rng)
    n, price = rng.randint(2, 9), rng.randint(2, 9)
    p.text.append(f"{p.a} buys {n} {p.t} for {price} coins each.")
    p.step("Cost", n, "*", price)
    ask = f"How many coins does {p.a} pay?"
    if rng.random() < 0.5:
        extra = rng.randint(2, 12)
        p.text.append(f"A {rng.choice(['lamp', 'hat', 'map', 'kite', 'drum', 'scarf'])} costs {extra} coins. {p.a} buys it too.")
        p.step("More", p.value, "+", extra)
        ask = f"How many coins does {p.a} pay in all?"
    if rng.random() < 0.5:
        money = tens_above(rng, p.value)
        p.text.append(f"{p.a} had {money} coins before.")
        p.step("Left", money, "-", p.value)
        ask = f"How many coins does {p.a} have left?"
    return p, ask


def groups(rng):
    """Equal shares and packing."""
    p = Problem(rng)
    n, each = rng.randint(2, 9), rng.randint(2, 9)
    place = rng.choice(SINGULAR_PLACES)
    p.text.append(f"{p.a} packs {n * each} {p.t} into {plural(place)}, {each} in each {place}.")
    p.steps.append(f"Start: {n * each}.")
    p.step("Share", n * each, "/", each)
    ask = f"How many {plural(place)} does {p.a} need?"
    if rng.random() < 0.4:
        extra = rng.randint(2, 12)
        p.text.append(f"{extra} more {plural(place)} stay empty.")
        p.step("More", p.value, "+", extra)
        ask = f"How many {plural(place)} are there in all?"
    return p, ask


def compare(rng):
    p = Problem(rng)
    x, y = rng.randint(3, 50), rng.randint(2, 12)
    more = rng.random() < 0.5 or x <= y + 2
    p.text.append(f"{p.a} has {x} {p.t}.")
    p.text.append(f"{p.b} has {y} {'more' if more else 'fewer'} than {p.a}.")
    p.steps.append(f"Start: {x}.")
    p.step("More" if more else "Less", x, "+" if more else "-", y)
    ask = f"How many {p.t} does {p.b} have?"
    if x <= 20:
        p.step("Together", x, "+", p.value)
        ask = f"How many {p.t} do they have together?"
    return p, ask


def rate(rng):
    p = Problem(rng)
    per, n = rng.randint(2, 9), rng.randint(2, 9)
    verb, unit = rng.choice([("reads", "pages"), ("walks", "miles"), ("paints", "tiles"), ("bakes", "rolls"), ("writes", "lines")])
    period = rng.choice(["hour", "day", "week"])
    p.text.append(f"{p.a} {verb} {per} {unit} every {period}.")
    p.step("Times", per, "*", n)
    ask = f"How many {unit} is that in {n} {period}s?"
    if rng.random() < 0.5:
        total = tens_above(rng, p.value)
        p.text.append(f"The goal is {total} {unit}.")
        p.step("Left", total, "-", p.value)
        ask = f"How many {unit} are left after {n} {period}s?"
    return p, ask


def drill(rng, thinking):
    """A list of bare operations: the densest way to practise them."""
    lines, asked = [], []
    for _ in range(rng.randint(3, 10)):
        kind = rng.random()
        if kind < 0.35:
            x, y = rng.randint(2, 80), small(rng)
            lines.append(f"{x} + {y} = {x + y}")
        elif kind < 0.7:
            y = small(rng)
            x = rng.randint(y + 1, 92)
            if rng.random() < 0.25:
                y = rng.randint(2, 90)
                x = tens_above(rng, y)
            lines.append(f"{x} - {y} = {x - y}")
        elif kind < 0.87:
            x, y = rng.randint(2, 9), rng.randint(2, 9)
            lines.append(f"{x} * {y} = {x * y}")
        else:
            x, y = rng.randint(2, 9), rng.randint(2, 9)
            lines.append(f"{x * y} / {x} = {y}")
        asked.append(lines[-1].split(" = ")[0])
    text = rng.choice(["Compute: ", "Calculate: ", "Work these out: "]) + ", ".join(asked)
    return conversation([user(text), assistant("\n".join(lines), "Line by line." if thinking else None)], thinking,
                        {"kind": "exact", "text": "\n".join(lines)})


def single(rng, thinking):
    kind = rng.choice("+-*/")
    x, y = rng.randint(2, 9), rng.randint(2, 9)
    if kind == "+":
        x, y = rng.randint(2, 80), small(rng)
        result = x + y
    elif kind == "-":
        y = small(rng)
        x = rng.randint(y + 1, 92)
        result = x - y
    elif kind == "*":
        result = x * y
    else:
        x, result = x * y, y
        y = x // result
    word = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}[kind]
    op = word if rng.random() < 0.4 else kind
    ask = rng.choice(["What is {}?", "How much is {}?", "Calculate {}.", "{}?", "Tell me what {} is."]).format(f"{x} {op} {y}")
    step = f"{x} {kind} {y} = {result}."
    return conversation([user(ask), assistant(f"{step}\n#### {result}", step if thinking else None)], thinking,
                        {"kind": "number", "number": result})


def problem(rng, thinking):
    maker = rng.choices([holdings, shopping, groups, compare, rate], [5, 2, 1, 2, 2])[0]
    p, ask = maker(rng)
    text = rng.choice(LEAD) + " ".join(p.text) + " " + ask + rng.choice(TAIL)
    steps = " ".join(p.steps)
    # With reasoning the answer repeats the steps; copying is cheap and keeps GSM8K's form in both modes.
    return conversation([user(text), assistant("\n".join(p.steps) + f"\n#### {p.value}", steps if thinking else None)],
                        thinking, {"kind": "number", "number": p.value})


def make(rng, thinking):
    kind = rng.random()
    if kind < 0.3:
        return drill(rng, thinking and rng.random() < 0.3)
    if kind < 0.38:
        return single(rng, thinking)
    return problem(rng, thinking)
