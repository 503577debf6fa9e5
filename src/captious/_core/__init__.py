"""Small foundations that know nothing of captions: files, records, written forms, random numbers, hashes, languages."""
