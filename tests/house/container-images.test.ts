import { expect, test } from "vitest";
import { chooseServer, imageOf } from "../support/database/postgres-test-server.ts";

const kustomization = (...images: string[]) => `images:\n${images.map((image) => `  - ${image}\n`).join("")}`;

test("the tests' containers are of the images in the manifests", () => {
  expect(imageOf("postgres")).toMatch(/^postgres:18\.\d+$/);
  expect(imageOf("valkey")).toMatch(/^valkey\/valkey:\d+\.\d+\.\d+$/);
});

test.each([
  { text: kustomization("{ name: postgres, newTag: '19.2' }"), image: "postgres:19.2" },
  { text: kustomization("{ name: postgres, newName: r.example/pg, newTag: '1' }"), image: "r.example/pg:1" },
])("$image is what kustomize makes of it", ({ text, image }) => {
  expect(imageOf("postgres", text)).toBe(image);
});

test("an image without a tag is refused", () => {
  expect(() => imageOf("postgres", kustomization("{ name: valkey, newTag: '8' }"))).toThrow("no tag");
  expect(() => imageOf("postgres", kustomization("{ name: postgres, newName: pg }"))).toThrow("no tag");
});

test("what TEST_INFRA cannot be is refused, and nothing else is started instead", async () => {
  await expect(chooseServer({ TEST_INFRA: "docker" })).rejects.toThrow('not "docker"');
});
