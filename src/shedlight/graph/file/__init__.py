"""The application file: YAML -> Application, and back."""
