"""Count the common words of wordings: `python -m tools.count_words > src/drike/encoders/common_words.txt`."""

from __future__ import annotations

import re
from collections import Counter
from importlib import resources

_LEAST = 3  # lines that have a word


def main() -> None:
    """Print the count and the word, the most common first; the first line counts all wordings."""
    folder = resources.files("drike.text").joinpath("relations")
    files = (file for file in sorted(folder.iterdir(), key=str) if file.name.endswith(".txt"))
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    wordings = [
        re.sub("^[a-z]{2}: ", "", line).replace("{}", "it") for line in lines if "{}" in line
    ]
    counts = Counter(
        word for line in wordings for word in set(re.findall(r"\w+|[^\w\s]", line.lower()))
    )
    print(f"{len(wordings)} ")
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if count >= _LEAST:
            print(f"{count} {word}")


if __name__ == "__main__":
    main()
