"""Pure functions of statistics: no I/O, no clock, no dependency."""
