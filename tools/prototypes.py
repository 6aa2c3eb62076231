"""Write the prototypes of the relations that come with drike, by the default gate's encoder.

python -m tools.prototypes
"""

from __future__ import annotations

from importlib import resources

import numpy as np

from drike.encoders import load_encoder
from drike.gates import inventory
from drike.gates.calibration import default_gate
from drike.text.relation_wordings import built_in


def main() -> None:
    """Encode all wordings, and replace the file."""
    encoder, relations = load_encoder(default_gate().encoder, keep=False), built_in()
    found = inventory.Inventory.encoded(relations, encoder)
    with resources.as_file(inventory._PROTOTYPES) as path:
        key = inventory._key(relations, encoder)
        np.savez_compressed(
            path, key=key, prototypes=found.prototypes.astype(np.float16), of=found.of
        )


if __name__ == "__main__":
    main()
