"""What native programs call and are made with: memory, threads, callbacks, compiling, the cache of objects."""
