"""Contrastive decoding where an edit is shown, and only there.

After context-aware decoding (arXiv 2305.14739) and, with `Contrast.adaptive`, AdaCAD (2409.07394).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drike.edits.edit import Edit, Key, trained_on
from drike.prompts import Against, Contrast, Prompt
from drike.research.editors.editor import Editor


@dataclass(frozen=True)
class Contrasting:
    """An editor whose answers are contrasted with those of the unedited model.

    Put it inside a gate: `GatedEditor(Contrasting(editor, Contrast(0.5)), ...)`. A query that the
    editor, or a gate before it, leaves alone is decoded as it is. So is every query with alpha 0.
    """

    editor: Editor
    contrast: Contrast

    @property
    def name(self) -> str:
        """The editor's, with alpha unless it is 0."""
        if not self.contrast.alpha:
            return self.editor.name
        kind = "adaptive contrast" if self.contrast.adaptive else "contrast"
        return f"{self.editor.name}, {kind} {self.contrast.alpha:g}"

    @property
    def trained_on(self) -> frozenset[Key]:
        """Keys of the edits that the editor was trained on."""
        return trained_on(self.editor)

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """The editor's prompts, each against its query alone. Raises ValueError for no edits."""
        prompts = self.editor.prompts(edits, queries)
        pairs = zip(prompts, queries, strict=True)
        return [contrasted(prompt, query, self.contrast) for prompt, query in pairs]


def contrasted(prompt: Prompt, query: str, contrast: Contrast) -> Prompt:
    """A prompt against the query alone; itself if that is what it is, or with alpha 0."""
    is_left_alone = not prompt.earlier and prompt.text == query
    if not contrast.alpha or is_left_alone:
        return prompt
    return replace(prompt, against=Against((query,), contrast))
