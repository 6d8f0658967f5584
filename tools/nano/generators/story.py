"""Short stories: a hero, a wish, a hindrance, help and an end, each drawn on its own."""

from .build import assistant, conversation, user
from .words import ANIMALS, NAMES

PLACES = ["in a small village", "at the edge of a forest", "in an old mill", "in a house by the sea", "in a quiet valley",
          "near a busy harbour", "in a tall lighthouse", "on a farm on a hill", "in a garden behind a wall",
          "in a town with three bridges", "under a bridge", "on a little island"]
TRAITS = "brave shy clever curious gentle stubborn cheerful patient lonely quick".split()
WISHES = [
    ("to find the lost ring", "the ring", "shone"), ("to cross the wide river", "the far bank", "shone"),
    ("to find the hidden lake", "the lake", "sparkled"), ("to build the tallest fire", "the fire", "burned"),
    ("to paint a little boat", "the boat", "glowed"), ("to see the first snow", "the snow", "sparkled"),
    ("to light the dark tower", "the light", "shone"), ("to grow a golden pear", "the pear", "shone"),
    ("to win the race of the hills", "the prize", "glittered"), ("to paint the whole sky", "the picture", "glowed"),
    ("to clean the great window", "the window", "glittered"), ("to find a friend", "the friend", "smiled"),
]
WEATHER = ["One cold morning", "One warm evening", "On a windy day", "When spring came", "On the longest night", "After the rain",
           "One autumn day", "Early on a Sunday", "Under a full moon", "At the end of summer"]
TROUBLES = ["the path was blocked by a fallen tree", "a storm came over the hills", "the lamp went out", "the rope broke",
            "nobody wanted to help", "the map was torn in two", "the door was locked", "fog covered the road",
            "the bridge had been washed away", "the night was darker than ever"]
FEELINGS = ["felt very small", "wanted to give up", "sat down and sighed", "did not know what to do", "almost cried",
            "took a deep breath"]
HELP = ["showed a secret way", "shared some bread and a kind word", "held up a lantern", "knew an old trick",
        "lent a strong hand", "told a story that made everything clear", "brought a ladder", "sang until the fear was gone"]
MORALS = ["Together they had done what one alone could not.", "From that day on they were friends.",
          "And nobody in the place ever forgot it.", "It was a small thing, but it changed everything.",
          "And if you listen at night, you can still hear them laugh.", "Since then the door has always stood open.",
          "Being afraid is fine, they said, if you go on.", "And that evening the soup tasted better than ever."]
ASK = ["Tell me a story about {}.", "Write a short story about {}.", "Please tell a story about {}.",
       "I would like a story about {}.", "Can you tell me a story about {}?", "Make up a story about {}."]
SHORT = ["Tell me a story.", "Write a short story.", "Tell me a bedtime story.", "I want to hear a story."]


def story(rng, name, animal):
    trait = rng.choice(TRAITS)
    wish, goal, shone = rng.choice(WISHES)
    place = rng.choice(PLACES)
    helper = rng.choice([a for a in ANIMALS if a != animal])
    helper_name = rng.choice([n for n in NAMES if n != name])
    an = "an" if trait[0] in "aeiou" else "a"
    first = rng.choice([
        f"Once upon a time there was {an} {trait} {animal} named {name} who lived {place}.",
        f"{place[0].upper()}{place[1:]} there lived {an} {trait} {animal}. The name of the {animal} was {name}.",
        f"{name} was {an} {trait} {animal} and lived {place}.",
    ])
    second = rng.choice([
        f"{name} wanted nothing more than {wish}.", f"Every night {name} dreamed of one thing: {wish}.",
        f"There was one wish that {name} had: {wish}.",
    ])
    third = f"{rng.choice(WEATHER)} {name} set out, but {rng.choice(TROUBLES)}."
    fourth = f"{name} {rng.choice(FEELINGS)}."
    hn = "an" if helper[0] in "aeiou" else "a"
    fifth = f"Then {hn} {helper} named {helper_name} came by and {rng.choice(HELP)}."
    sixth = rng.choice([
        f"Soon they reached their goal, and {goal} {shone} more brightly than {name} had ever hoped.",
        f"A little later {goal} {shone}, and {name} was happy.",
        f"Before the day was over {goal} {shone}, and {name} thanked {helper_name}.",
    ])
    return f"{first} {second}\n\n{third} {fourth} {fifth}\n\n{sixth} {rng.choice(MORALS)}"


def make(rng, thinking):
    name, animal = rng.choice(NAMES), rng.choice(ANIMALS)
    pick = rng.random()
    an = "an" if animal[0] in "aeiou" else "a"
    if pick < 0.4:
        ask = rng.choice(ASK).format(f"{an} {animal}")
    elif pick < 0.8:
        ask = rng.choice(ASK).format(f"{an} {animal} named {name}")
    else:
        ask = rng.choice(SHORT)
    plan = f"The story is about {an} {animal} named {name}."
    return conversation([user(ask), assistant(story(rng, name, animal), plan if thinking else None)], thinking,
                        {"kind": "none"})
