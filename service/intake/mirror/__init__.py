"""From a repository to what its history holds: fetched, walked and read in a process apart; `looking.py` is the door."""
