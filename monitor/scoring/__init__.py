"""What the stage `score` is made of: budget, outcomes, second opinions; asking a judge is in `judging`."""
