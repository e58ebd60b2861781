"""Sessions of libraries, whose programs choose the place of the file: name the file. Read only."""
