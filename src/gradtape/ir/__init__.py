"""What a program is: shapes and types (operations and regions come with compiled functions)."""
