"""A turn and a rubric become a finding: what is asked, of whom, how it is read; which turns is for `stages`."""
