"""Questions about quern, in many wordings; the answers stand in quern_topics.py."""

import functools

from .build import assistant, conversation, held_out, system, user
from .quern_topics import TOPICS

FORMS = {
    "what": ["What is {}?", "What does {} mean?", "Explain {}.", "Can you explain {}?", "Tell me about {}.", "What is meant by {}?",
             "Describe {}.", "I read about {}. What is it?", "Help me understand {}.", "In simple words, what is {}?", "Define {}."],
    "how": ["How do I {}?", "How can I {}?", "How to {}?", "Show me how to {}.", "I want to {}. How?", "Tell me how to {}.",
            "What must I do to {}?", "What is the way to {}?", "How would I {}?", "Explain how to {}.", "I need to {}. What do I do?"],
    "ask": ["{}"],
}
PREFIX = ["", "", "", "", "Please: ", "Hello. ", "A question: ", "Quick question: ", "One more thing: ", "I am new to quern. "]
SUFFIX = ["", "", "", "", "", " Thanks.", " Please be brief.", " I am curious."]
SYSTEMS = ["You are a helpful assistant.", "You answer questions about quern.", "Be brief."]


@functools.cache
def wordings(index, held):
    """The trained or the held-out questions of a topic.

    Held out are pairs of form and subject, whatever is said around them. Topics with a few whole questions cannot spare
    one, so there it is the question together with what is said around it.
    """
    topic = TOPICS[index]
    cores = [form.format(subject) for form in FORMS[topic.form] for subject in topic.subjects]
    if topic.form == "ask":
        cores = [p + core + s for core in cores for p in PREFIX for s in SUFFIX]
    chosen = [core for core in cores if held_out(core) == held]
    assert chosen, f"no wording of {topic.name} is held out: it wants another subject"
    return chosen


def wording(rng, index, held):
    text = rng.choice(wordings(index, held))
    return text if TOPICS[index].form == "ask" else rng.choice(PREFIX) + text + rng.choice(SUFFIX)


def make(rng, thinking, held=False):
    messages = [system(rng.choice(SYSTEMS))] if rng.random() < 0.15 else []
    turns = 1 if held or rng.random() < 0.6 else rng.randint(2, 3)
    for _ in range(turns):
        index = rng.randrange(len(TOPICS))
        topic = TOPICS[index]
        reasoning = f"The question is about {topic.name}." if thinking else None
        messages += [user(wording(rng, index, held)), assistant(rng.choice(topic.answers), reasoning)]
    return conversation(messages, thinking, {"kind": "keywords", "topic": topic.name, "words": topic.keywords})
