"""From the spans of a trace to turns: joining, segmentation, and which span's word counts for which field."""
