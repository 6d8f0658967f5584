"""Words that are two tokens, 'Oslo' and ' Oslo', start out alike.

A tool argument or a JSON value is copied from running text, where its token begins with a space, to behind a quote or a tag, where
it does not. With unrelated embeddings the model would have to learn each word's pair on its own; with a common part it copies the
word and only chooses the form.
"""

import torch

EMBED, HEAD = 0.5, 0.7  # how much of the difference goes


def pairs(tokenizer):
    """ids of [('Oslo', ' Oslo'), ...]."""
    vocabulary = tokenizer.get_vocab()
    words = [t for t in vocabulary if len(t) > 1 and t.isascii() and t.isalpha() and "Ġ" + t in vocabulary]
    return [(vocabulary[t], vocabulary["Ġ" + t]) for t in sorted(words)]


@torch.no_grad()
def tie(w, ids, share):
    """Moves both rows of each pair towards their mean; the mean difference of all pairs, which is the form, stays."""
    a, b = torch.tensor(ids).t()
    x, y = w[a].float(), w[b].float()
    mean, form = (x + y) / 2, ((x - y) / 2).mean(0)
    w[a] = torch.lerp(x, mean + form, share).to(w.dtype)
    w[b] = torch.lerp(y, mean - form, share).to(w.dtype)
