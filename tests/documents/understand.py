"""Says how many blocks it has understood: Python that compiles, and SQL that SQLite runs.

What comes in is {"python": [[place, text]], "sql": [[[place, text]]]}, with one program and a list of
blocks for each document. The first that is not understood ends it, with its place.
"""

import json
import sqlite3
import sys
import warnings


class Arguments(dict):
    """A value for whatever the statement asks for, by whichever name."""

    def __missing__(self, name):
        return 1


def run(database, place, text):
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            database.execute(statement, Arguments())
            statement = ""
    if any(not line.startswith("--") for line in statement.splitlines() if line.strip()):
        raise SyntaxError(f"{place}: the last statement has no end")


def main():
    warnings.simplefilter("error")
    blocks = json.load(sys.stdin)
    for place, text in blocks["python"]:
        compile(text, place, "exec")
    for document in blocks["sql"]:
        database = sqlite3.connect(":memory:")
        for place, text in document:
            try:
                run(database, place, text)
            except sqlite3.Error as error:
                raise SyntaxError(f"{place}: {error}") from error
    count = len(blocks["python"]) + sum(len(document) for document in blocks["sql"])
    print(f"{count} understood")


main()
