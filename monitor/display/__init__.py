"""Numbers become lines for people: tables, charts, sentences of alerts; nothing is computed or stored here."""
