"""What the HTML report is built from: template, style, scripts, and the pictures it embeds."""
