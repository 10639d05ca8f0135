"""What two runs of one config must share."""

import json


def outcome(record: dict) -> str:
    """All of a record that two runs must share, as text: equal text is equal bits."""
    return json.dumps({k: v for k, v in record.items() if k not in ("times", "provenance")}, sort_keys=True)
