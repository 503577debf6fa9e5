"""Who works on many tasks: this process, several processes of this machine, or a Ray cluster. No caption comes here."""
