# SPDX-License-Identifier: MIT
"""What a reader may expect of the documents: the README is short, what it refers to exists, and
sentences are short.

Checked: the README's size; that each manual page and file that the README or a manual page refers
to is in this repository; that the functions that a map names are in these files; that no sentence
of a document has more words than a reader holds at once; that no document says "who" for "a process
that", or uses a turn that hides the actor; and that subjects of commits are short and name their
area. Tables, examples, the licence and what a tool has
rendered are no sentences."""

import pathlib
import re
import subprocess
import sys

README_LINES, README_BYTES = 250, 15000
TURNS = re.compile(
    r"of which it is told|\b(?:comes?|came) to (?:its|their|an) end\b|what is of it"
    r"|(?<![Tt]here )\bis nothing to\b"
)
# "Who" for "a process that": as a subject, or behind a word that joins clauses.
WHO = re.compile(r"(?:^|[.:;] )who\b|\b(?:and|but|for|of|by|to|from|as|than) who\b", re.I)
# Commits behind this one have subjects of at most 72 columns, without a semicolon.
SUBJECTS_SINCE, SUBJECT_COLUMNS = "7909867", 72
SENTENCE_WORDS = 30
# A page of ours, as text refers to it: ckptfs-rules(5), mount.ckptfs(8).
PAGE = re.compile(r"\b((?:mount\.|umount\.fuse\.)?ckptfs(?:[-.][a-z]+)*)\((\d)\)")
# Of mdoc's lines, those that begin something new.
BREAKS = (
    "Sh",
    "Ss",
    "Pp",
    "It",
    "Bl",
    "El",
    "Bd",
    "Ed",
    "TS",
    "TE",
    "Nm",
    "Nd",
    "Dd",
    "Dt",
    "Os",
    "br",
    "sp",
)
# And those that name things: a list of names is read as one.
CODE = ("Cm", "Fl", "Ql", "Pa", "Ev", "Er", "Dv", "Va", "Xr", "Qq", "Pq", "Po", "Pc")

wrong = []


def files():
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return [
        pathlib.Path(line) for line in sorted(set(out.splitlines())) if pathlib.Path(line).is_file()
    ]


def pages(all_files):
    return [
        path
        for path in all_files
        if re.fullmatch(r"\.[1-8]", path.suffix) and path.parts[0] != "tests"
    ]


def check_size(readme):
    nr_lines, nr_bytes = readme.count("\n"), len(readme.encode())
    if nr_lines > README_LINES or nr_bytes > README_BYTES:
        wrong.append(
            f"README.md has {nr_lines} lines and {nr_bytes} bytes; "
            f"at most {README_LINES} and {README_BYTES} are wanted"
        )


def check_references(readme, manual):
    have = {(path.stem, path.suffix[1:]) for path in manual}
    named = [("README.md", match) for match in PAGE.findall(readme)]
    for path in manual:
        text = path.read_text(encoding="utf-8")
        named += [(str(path), match) for match in PAGE.findall(text)]
        named += [
            (str(path), match)
            for match in re.findall(
                r"^\.Xr ((?:mount\.|umount\.fuse\.)?ckptfs(?:[-.][a-z]+)*) (\d)", text, re.M
            )
        ]
    for where, (name, section) in sorted(set(named)):
        if (name, section) not in have:
            wrong.append(f"{where} refers to {name}({section}), which there is not")
    for target in re.findall(r"\]\(([^)#:]+)\)", readme):
        if not pathlib.Path(target).exists():
            wrong.append(f"README.md refers to {target}, which there is not")


def paragraphs_of_markdown(text):
    """Prose alone: no fences, tables, comments, headings and indented examples, and nothing from
    the licence on."""
    text = re.sub(r"```.*?```|<!--.*?-->", "\n\n", text.split("\nMIT License\n")[0], flags=re.S)
    kept = [
        "" if re.match(r"#|\||\t|    ", line) else re.sub(r"^(- |\d+\. )", "\n\n", line)
        for line in text.split("\n")
    ]
    return re.split(r"\n\s*\n", "\n".join(kept))


def paragraphs_of_mdoc(text):
    text = re.sub(
        r'^\.\\" Rendered by .*?^\.\\" End of what is rendered$', ".Pp", text, flags=re.S | re.M
    )
    text = re.sub(r"^\.(Bd .*?\n\.Ed|TS\n.*?\n\.TE)$", ".Pp", text, flags=re.S | re.M)
    # A line of synopsis or of references is no sentence.
    text = re.sub(r"^\.Sh (SYNOPSIS|SEE ALSO)$.*?(?=^\.Sh |\Z)", "", text, flags=re.S | re.M)
    kept = []
    for line in text.split("\n"):
        if line.startswith(('.\\"', "'\\\"")):
            continue
        macro = line[1:].split(" ")[0] if line.startswith(".") else None
        if macro in BREAKS:
            kept.append("\n")
        elif macro == "Em" and line.endswith(" :"):  # Why: Do: Safe:
            kept.append("\n")
        elif macro in CODE:
            kept.append(
                "CODE"
                + "".join(line.rsplit(" ", 1)[1:] if line[-2:] in (" .", " ,", " ;", " :") else "")
            )
        elif macro is not None:
            kept.append(re.sub(r" ([.,;:)?])(?= |$)", r"\1", line[len(macro) + 2 :]))
        else:
            kept.append(line)
    return re.split(r"\n\s*\n", "\n".join(kept))


def check_sentences(where, paragraphs):
    for paragraph in paragraphs:
        # What is quoted as code is one word, however long.
        text = re.sub(r"`[^`]*`", "CODE", " ".join(paragraph.split()))
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
        for sentence in re.split(r"(?<=[.?!:])[*\s]+", text):
            words = sentence.split()
            if len(words) > SENTENCE_WORDS:
                wrong.append(
                    f"{where}: a sentence of {len(words)} words: {' '.join(words[:8])} ..."
                )
            who = WHO.search(sentence)
            if who and not sentence.endswith("?"):
                around = sentence[max(who.start() - 20, 0) : who.end() + 40]
                wrong.append(f'{where}: "who"; name the actor: {around} ...')


def check_turns(where, text):
    for turn in TURNS.findall(" ".join(text.split())):
        wrong.append(f'{where}: says "{turn}": name the actor and the thing')


def check_functions(where, text, all_files):
    """`file.c: function` is so. The first folders of a file may be left out."""
    product = [path for path in all_files if path.parts[0] in ("client", "engine", "fs")]
    for name, function in re.findall(r"`([\w/]+\.[ch]): (\w+)`", text):
        found = [path for path in product if f"/{path}".endswith(f"/{name}")]
        if not any(re.search(rf"\b{function}\b", path.read_text("utf-8")) for path in found):
            wrong.append(f"{where}: {name} has no {function}")


def check_subjects():
    out = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h %s", SUBJECTS_SINCE + ".."],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    for line in out.stdout.splitlines():  # none where the history is not there
        commit, subject = line.split(" ", 1)
        if (
            len(subject) > SUBJECT_COLUMNS
            or ";" in subject
            or not re.match(r"[\w/.,-]+(, [\w/.-]+)*: ", subject)
        ):
            wrong.append(
                f"commit {commit}: its subject has {len(subject)} columns; "
                'wanted are "area: imperative", '
                f"at most {SUBJECT_COLUMNS} columns, no semicolon: {subject}"
            )


all_files = files()
manual = pages(all_files)
readme = pathlib.Path("README.md").read_text(encoding="utf-8")
check_size(readme)
check_references(readme, manual)
for path in [*manual, *(path for path in all_files if path.suffix == ".md")]:
    text = path.read_text(encoding="utf-8")
    check_sentences(
        path, paragraphs_of_markdown(text) if path.suffix == ".md" else paragraphs_of_mdoc(text)
    )
    check_turns(path, text)
    if path.parts[0] in ("client", "engine", "fs") and path.suffix == ".md":
        check_functions(path, text, all_files)
check_subjects()
print("\n".join(wrong))
sys.exit(bool(wrong))
