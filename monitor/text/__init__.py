"""Words, sentences, claims and languages of a text: pure functions that know nothing of turns."""
