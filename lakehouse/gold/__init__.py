"""Gold tables: what each is made of, by pure folds over decisions and events, and their job."""
