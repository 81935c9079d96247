"""The list of error codes and the text of each, as `e2e/errors/` has them: what tests compare and the reference shows."""
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "e2e" / "errors"


def registry():
    """The codes: `{code: (kinds, SQLSTATEs, meaning, why it has no text in this folder)}`."""
    codes, last = {}, None
    for line in (FOLDER / "codes.txt").read_text().splitlines():
        if re.match(r"[A-Z]+-\d{4} ", line):
            last, kinds, states, meaning = (part.strip() for part in line.split("|"))
            codes[last] = (kinds.split(), states.split(), meaning, None)
        elif line.startswith("    "):
            codes[last] = (*codes[last][:3], line.strip())
    return codes


def cases():
    """All cases: `(file, heading, lines done, text told)`."""
    for path in sorted(FOLDER.glob("*.txt")):
        if path.name == "codes.txt":
            continue
        for part in re.split(r"^(?=## )", path.read_text(), flags=re.M)[1:]:
            heading, *lines = part.rstrip("\n").split("\n")
            done = [line[2:] for line in lines if line.startswith("> ") or line == ">"]
            told = "\n".join(line for line in lines if not line.startswith(">")).strip("\n")
            yield path, heading[3:].strip(), done, told
