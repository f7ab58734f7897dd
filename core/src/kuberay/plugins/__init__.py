"""Finding, checking and calling plugins; their feature gates; and keeping their failures to themselves."""
