"""Reports of a run, made from its log: a page of HTML, sentences, the summary at its end."""
