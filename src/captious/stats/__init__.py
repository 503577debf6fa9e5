"""Statistics on plain numbers: resampling, tests, Kendall's tau, correlation, agreement. No caption comes here."""
