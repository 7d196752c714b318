import { expect, test } from "vitest";
import { publicValue } from "./public-references.ts";

const upstreams = ["http://10.0.0.1:8082", "http://shop-2", "https://shop.internal"];
const kept = { version: "", route: { prefix: "/shop", stripPrefix: false, upstreams } };
const stripped = { version: "", route: { prefix: "/shop", stripPrefix: true, upstreams } };

/** Of a stripped route, and of any other. */
const REFERENCES = [
  ["/login", "/shop/login", "/login"],
  ["/", "/shop/", "/"],
  ["/shop-2/x", "/shop/shop-2/x", "/shop-2/x"],
  ["/a/shop", "/shop/a/shop", "/a/shop"],
  ["/shop", "/shop", "/shop"],
  ["/shop/login", "/shop/login", "/shop/login"],
  ["/shop?a", "/shop?a", "/shop?a"],
  ["/shop#a", "/shop#a", "/shop#a"],
  ["http://10.0.0.1:8082/login?a=/b#c", "/shop/login?a=/b#c", "/login?a=/b#c"],
  ["HTTP://10.0.0.1:8082", "/shop/", "/"],
  ["http://10.0.0.1:8082?a", "/shop/?a", "/?a"],
  ["http://10.0.0.1:8082#a", "/shop/#a", "/#a"],
  ["http://shop-2:80/%7Ex", "/shop/%7Ex", "/%7Ex"],
  ["http://SHOP-2/x", "/shop/x", "/x"],
  ["https://shop.internal:443/x", "/shop/x", "/x"],
  ["https://10.0.0.1:8082/x", "/shop/x", "/x"],
  ["http://user@shop-2/x", "/shop/x", "/x"],
  ["//shop-2/x", "/shop/x", "/x"],
  ["//shop-2:80/x", "/shop/x", "/x"],
  ["//10.0.0.1:8082/shop/x", "/shop/x", "/shop/x"],
  ["http://shop-2//evil.example", "/shop//evil.example", "/.//evil.example"],
  ["http://shop-2/\t/evil.example", "/shop/\t/evil.example", "/./\t/evil.example"],
  ["http://shop-2/\\evil.example", "/shop/\\evil.example", "/./\\evil.example"],
  ["http://shop-2\\evil.example", "/shop/\\evil.example", "/./\\evil.example"],
  ["http://10.0.0.1/x", "http://10.0.0.1/x", "http://10.0.0.1/x"],
  ["http://shop-2:8080/x", "http://shop-2:8080/x", "http://shop-2:8080/x"],
  ["http://shop-2.example/x", "http://shop-2.example/x", "http://shop-2.example/x"],
  ["http://shop-2@evil.example/x", "http://shop-2@evil.example/x", "http://shop-2@evil.example/x"],
  ["https://pay.example/shop", "https://pay.example/shop", "https://pay.example/shop"],
  ["//pay.example/x", "//pay.example/x", "//pay.example/x"],
  ["/\\pay.example/x", "/\\pay.example/x", "/\\pay.example/x"],
  ["///x", "///x", "///x"],
  ["ftp://shop-2/x", "ftp://shop-2/x", "ftp://shop-2/x"],
  ["login", "login", "login"],
  ["../login", "../login", "../login"],
  ["?a=/b", "?a=/b", "?a=/b"],
  ["#a", "#a", "#a"],
  ["", "", ""],
] as const;

test.each(REFERENCES)("a reference to %j is %j behind a stripped prefix, else %j", (sent, behind, beside) => {
  for (const [place, url] of [
    [stripped, behind],
    [kept, beside],
  ] as const) {
    for (const name of ["location", "content-location"]) expect(publicValue(name, sent, place)).toBe(url);
    for (const start of ["5; url=", "0;URL='", '0.5 ; Url = "', "1,url=", "1 "]) {
      expect(publicValue("refresh", `${start}${sent}`, place)).toBe(`${start}${url}`);
    }
    expect(publicValue("link", `<${sent}>; rel=next`, place)).toBe(`<${url}>; rel=next`);
  }
});

test("every target of a Link is rewritten, and nothing else in it", () => {
  const link = '</a>; rel=next, <b>; title="</c>",</d>; rel="/e"';
  expect(publicValue("link", link, stripped)).toBe(
    '</shop/a>; rel=next, <b>; title="</c>",</shop/d>; rel="/e"',
  );
});

test.each(["x </a>; rel=next", ", </a>", "</a", "x, y </a>"])(
  "what is no target of a Link stays: %j",
  (value) => {
    const rewritten = value === ", </a>" ? ", </shop/a>" : value;
    expect(publicValue("link", value, stripped)).toBe(rewritten);
  },
);

test("a call of version 1 by its name gets references of that name", () => {
  const v1 = { ...stripped, version: "/v1" };
  expect(publicValue("location", "/login", v1)).toBe("/v1/shop/login");
  expect(publicValue("location", "/v1/shop/login", v1)).toBe("/v1/shop/login");
  expect(publicValue("location", "/shop/login", v1)).toBe("/shop/login");
  expect(publicValue("location", "/v1/shop/x", stripped)).toBe("/shop/v1/shop/x");
  expect(publicValue("location", "/login", { ...kept, version: "/v1" })).toBe("/login");
});

test.each(["etag", "set-cookie", "x-location", "constructor", "__proto__"])(
  "the header %s stays as it is",
  (name) => {
    expect(publicValue(name, "/x", stripped)).toBe("/x");
  },
);

test.each(["5", "x; url=/a", "; url=/a", "url=/a", "x5; url=/a", "5/a", "5; x;/a", "5; x url=/a", '5; x"/a'])(
  "the Refresh %j stays as it is",
  (value) => {
    expect(publicValue("refresh", value, stripped)).toBe(value);
  },
);
