"""Where a turn is told: the answer as it is written, and sentences beside it.

A sheet knows how text gets to a person and nothing of turns. What a model wrote is foreign text: every sheet makes it
harmless before it is shown.
"""

from typing import Protocol, TextIO

from holdfast.cli.paper import aside, harmless


class Sheet(Protocol):
    """Takes an answer piece by piece, and sentences in between."""

    # Whether an answer is shown while it is written. Otherwise only the whole one is wanted.
    is_live: bool

    def write(self, text: str) -> None:
        """Show a piece of an answer."""
        ...

    def finish(self) -> None:
        """End the answer in hand: what comes next stands on lines of its own."""
        ...

    def aside(self, sentence: str) -> None:
        """Show a sentence that is not part of an answer."""
        ...


class PlainSheet:
    """Answers on one stream and sentences on another, as they are: for pipes and for terminals that can do no more."""

    def __init__(self, answers: TextIO, asides: TextIO) -> None:
        self._answers, self._asides = answers, asides
        self.is_live = answers.isatty()
        self._is_mid_line = False

    def write(self, text: str) -> None:
        """Show a piece of an answer."""
        if text:
            self._answers.write(harmless(text))
            self._answers.flush()
            self._is_mid_line = not text.endswith("\n")

    def finish(self) -> None:
        """End the line that the answer stands on, if it does not end itself."""
        if self._is_mid_line:
            self._answers.write("\n")
            self._is_mid_line = False
        self._answers.flush()

    def aside(self, sentence: str) -> None:
        """Show a sentence on a line of its own."""
        self.finish()
        aside(sentence, self._asides)

    def invite(self) -> None:
        """Say that it is the person's turn; whoever writes next has a line of their own."""
        stream = self._answers if self._answers.isatty() else self._asides
        stream.write("> ")
        stream.flush()
        self._is_mid_line = stream is self._answers

    def take_line(self) -> None:
        """Know that the person has ended the line, as a terminal shows it by itself."""
        self._is_mid_line = False
