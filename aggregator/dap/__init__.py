"""The DAP draft on the wire: messages, identifiers, times, HPKE, problem types, resources. Pure."""
