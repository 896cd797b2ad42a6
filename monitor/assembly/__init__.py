"""A trace's spans become turns: joined, segmented, field by field; what a convention's keys mean is in `dialects`."""
