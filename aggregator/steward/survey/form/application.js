// The permits of a page in an application, which puts them into this browser at its login.

/** What is said of a permit that lets nothing count, by the leader's word. */
const OF_LINKS = { permit_spent: 'permit_used', permit_unknown: 'permit_unknown', permit_of_another_window: 'permit_window' };
const FOR = '#for=';

// Where people share a browser, the application names behind the # who is logged in.
addEventListener('hashchange', () => location.reload());

/** Takes the permits of whoever reads, which lie in the outbox of the application's own address. */
function personalLink() {
  const name = location.hash.startsWith(FOR) ? decodeURIComponent(location.hash.slice(FOR.length)) : '';
  const all = [survey.task, ...survey.texts.flatMap(({ tasks }) => tasks)].filter(Boolean);
  const tasks = all.map((each) => new Task(each));
  const here = () => new Permits(tasks, survey.keys, { outbox, person: name, now: () => moment });
  return {
    name,
    permit: (task, at) => here().permit(task, at),
    isMissing: async (at) => !(await here().isThere(tasks[0], at)),
    tidy: () => here().tidy(),
  };
}
