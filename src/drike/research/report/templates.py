"""The templates of this folder; jinja2 escapes every text that they are given."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_HERE = Path(__file__).parent


def rendered(template: str, **values: object) -> str:
    """A template with its values, and the style of all pages."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (_HERE / "style.css").read_text("utf-8")
    return environment.get_template(template).render(style=style, **values)
