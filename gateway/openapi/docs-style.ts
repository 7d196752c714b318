/** Of `/docs`. Custom properties and `color-scheme` are those of all pages. */
export const STYLE =
  "*{box-sizing:border-box}html{scroll-padding-top:4rem}" +
  "body{margin:0 auto;padding:1rem 1rem 4rem;max-width:60rem;font:1rem/1.55 var(--font);" +
  "color:var(--ink);background:var(--paper);overflow-wrap:anywhere}" +
  "header,nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem}" +
  "header{justify-content:space-between}header a:first-child{color:var(--ink);font-weight:650;text-decoration:none}" +
  "header img{height:1.5rem;max-width:8rem;margin-right:.6rem;object-fit:contain;vertical-align:middle}" +
  "nav ul{padding:.75rem 0;border-bottom:1px solid var(--line)}nav li{margin:0}" +
  "h1{margin:2rem 0 .5rem;font-size:1.75rem;line-height:1.2;letter-spacing:-.02em}" +
  "h2{margin:2.5rem 0 .25rem;font-size:1.25rem}h4{margin:1.25rem 0 .25rem;font-size:.875rem}" +
  "h3{display:inline;font-size:1rem;font-weight:400}" +
  "p{margin:.5rem 0}ul{margin:.25rem 0;padding:0;list-style:none}li{margin:.35rem 0}" +
  "li li{margin-left:1rem;padding-left:.75rem;border-left:2px solid var(--line)}" +
  "a{color:var(--accent);text-underline-offset:.2em}a:hover{color:var(--accent-deep)}" +
  ":focus-visible{outline:2px solid var(--accent);outline-offset:2px}" +
  "code,pre,.method{font-family:var(--mono);font-size:.875em}code{color:var(--ink)}a code{color:inherit}" +
  "pre{margin:.25rem 0;padding:.75rem 1rem;background:var(--tint);border-radius:var(--radius);white-space:pre-wrap}" +
  "small,dt{color:var(--muted)}small{font-size:.875rem}dl{margin:0}dt{margin-top:.75rem}dd{margin:0}" +
  "details{margin-top:-1px;border:1px solid var(--line);background:var(--surface)}" +
  "summary{padding:.5rem .75rem;cursor:pointer}summary:hover{background:var(--tint)}" +
  "b{font-weight:650}summary span+b{margin-right:.5rem}summary b+span{color:var(--muted)}.method{display:inline-block;min-width:4.25rem;color:var(--accent);font-weight:650}" +
  "details>div{padding:0 .75rem .75rem;border-top:1px solid var(--line);scroll-margin-top:4rem}" +
  "dt:target,details:has(>:target){outline:2px solid var(--accent)}";
