// Runs checks by name and prints what came of each; says what a package has to be checked.
import { access } from "node:fs/promises";
import { join } from "node:path";

/** Its modules, with how many threads they run, and the options that choose one where it has not all. */
export async function built(pack) {
  const has = (name) => access(join(pack, name)).then(() => true, () => false);
  const modules = [];
  for (const name of ["simd128", "relaxed-simd"]) if (await has(name)) modules.push(name);
  const threads = (await has("simd128-threads")) ? [1, 2] : [1];
  const module = modules.length === 1 ? { module: modules[0] } : {};
  return { modules, threads, plain: threads.length === 1 ? { ...module, threads: 1 } : module };
}

/** The number of failures. A check may say how much it has seen. */
export async function run(checks, how) {
  const only = process.env.CHECK;
  let failures = 0;
  for (const [name, check] of Object.entries(checks)) {
    if (only && !name.includes(only)) continue;
    const begun = Date.now();
    const time = () => `${((Date.now() - begun) / 1000).toFixed(1)} s`;
    try {
      const said = await how(check);
      console.log(`ok      ${name} (${said ? `${said}, ` : ""}${time()})`);
    } catch (error) {
      failures += 1;
      console.log(`FAILED  ${name} (${time()})\n        ${error.message}`);
    }
  }
  return failures;
}
