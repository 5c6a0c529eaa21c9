"""Types of command-line options, for common options and options of experiments."""

import argparse
from collections.abc import Callable, Iterable


def list_of(allowed: Iterable[str]) -> Callable[[str], list[str]]:
    """A parser of comma-separated names from the allowed ones."""
    allowed = tuple(allowed)

    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in allowed]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'an empty list'}: choose from {', '.join(allowed)}")
        return names

    return parse


def positive(text: str) -> int:
    """A whole number of 1 or more."""
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def scale(text: str) -> float:
    """A factor for the published numbers of documents."""
    number = float(text)
    if not 0 < number <= 100:
        raise argparse.ArgumentTypeError("must be above 0 and at most 100")
    return number


def sizes_of(text: str) -> list[int]:
    """Comma-separated numbers of documents."""
    return [positive(size) for size in text.split(",") if size.strip()]
