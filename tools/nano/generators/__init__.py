"""One file per kind of conversation; each has make(rng, thinking) -> conversation (see chat.py) with a `check`."""
