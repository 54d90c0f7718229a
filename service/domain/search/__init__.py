"""Search: from what somebody wants to the tools that serve it (seed §2 step 3). Pure: text in, a Match out.

`words` reads text, `fields` says what of a definition is searched, `bm25` scores, `calibration` knows what a score is worth in
the registry as it is now, `learned` holds what may be learned from the record, and `matcher` puts them together.
"""
