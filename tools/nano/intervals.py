"""Confidence intervals for scores. Standard library only; all at 95%."""

import math

Z = 1.959964


def wilson(right, count):
    """(low, high) of a share; sensible at 0% and 100% too."""
    if count == 0:
        return 0.0, 1.0
    share = right / count
    middle = share + Z * Z / (2 * count)
    half = Z * math.sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    scale = 1 + Z * Z / count
    # At the ends the exact bounds are 0 and 1; rounding must not leave the score outside.
    return max(0.0, min((middle - half) / scale, share)), min(1.0, max((middle + half) / scale, share))


def paired_difference(both, only_a, only_b, neither):
    """(low, high) of score b - score a on the same questions: Newcombe's interval for paired shares (1998, method 10).

    It is built from the two Wilson intervals, so it does not shrink to nothing when no question differs.
    """
    count = both + only_a + only_b + neither
    a, b = (both + only_a) / count, (both + only_b) / count
    low_a, high_a = wilson(both + only_a, count)
    low_b, high_b = wilson(both + only_b, count)
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    product = both * neither - only_a * only_b
    if margins == 0:
        phi = 0.0
    else:
        # The continuity correction is part of the method; it applies to positive association only.
        corrected = max(product - count / 2, 0) if product > 0 else product
        phi = corrected / math.sqrt(margins)
    down_b, up_a = b - low_b, high_a - a
    up_b, down_a = high_b - b, a - low_a
    low = math.sqrt(max(down_b**2 - 2 * phi * down_b * up_a + up_a**2, 0))
    high = math.sqrt(max(up_b**2 - 2 * phi * up_b * down_a + down_a**2, 0))
    return b - a - low, b - a + high


def mcnemar(only_a, only_b):
    """Exact two-sided p: how often a difference at least this uneven comes by chance."""
    count = only_a + only_b
    if count == 0:
        return 1.0
    tail = sum(math.comb(count, k) for k in range(min(only_a, only_b) + 1)) / 2**count
    return min(1.0, 2 * tail)
