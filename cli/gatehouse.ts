#!/usr/bin/env node
// The program of `npm exec gatehouse` and `node cli/gatehouse.ts`.
import "./main.ts";
