"""What a metric is, how a judge is asked, and how its replies are read."""
