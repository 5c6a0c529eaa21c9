"""Types of the command line's options, for the frame's own and those of experiments."""

import argparse
from collections.abc import Callable, Iterable


def list_of(allowed: Iterable[str]) -> Callable[[str], list[str]]:
    """Names by commas, each of them one of the allowed."""
    allowed = tuple(allowed)

    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in allowed]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(allowed)}")
        return names

    return parse


def positive(text: str) -> int:
    """A whole number of 1 or more."""
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def scale(text: str) -> float:
    """A factor that sizes are multiplied with."""
    number = float(text)
    if not 0 < number <= 100:
        raise argparse.ArgumentTypeError("must be above 0 and at most 100")
    return number


def sizes_of(text: str) -> list[int]:
    """Numbers of documents by commas."""
    return [positive(size) for size in text.split(",") if size.strip()]
