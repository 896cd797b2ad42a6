"""When a series changed for the worse, and what is watched; formulas are in `statistics`, rows in `store`."""
