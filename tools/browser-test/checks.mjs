// Runs checks by name and prints what came of each.

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
