"""Which of several forms a client likes best, by its Accept or Accept-Encoding header."""

from __future__ import annotations

from collections.abc import Sequence


def preferred(header: str, offers: Sequence[str]) -> str | None:
    """The offer that an Accept or Accept-Encoding header likes best; the first of equals.

    None: it likes none of them. A server may send its default then, as to a client that says nothing.
    """
    weights = {name: weight for name, weight in map(_weighted, header.split(",")) if name}
    best, highest = None, 0.0
    for offer in offers:
        wildcard = f"{offer.partition('/')[0]}/*"
        weight = next((weights[name] for name in (offer, wildcard, "*/*", "*") if name in weights), 0.0)
        if weight > highest:
            best, highest = offer, weight
    return best


def _weighted(item: str) -> tuple[str, float]:
    """`text/plain;version=0.0.4;q=0.5` to ("text/plain", 0.5); a weight that is no number counts as 0."""
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return name, float(value)
            except ValueError:
                return name, 0.0
    return name, 1.0
