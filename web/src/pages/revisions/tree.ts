// The revisions of a document as a tree, and where each is drawn.

/** A branch: a leaf and its ancestors. */
export interface Branch {
  readonly rev: string;
  readonly deleted: boolean;
  /** The revisions from the leaf to the oldest one that is remembered. */
  readonly path: readonly string[];
}

export interface TreeNode {
  readonly rev: string;
  readonly generation: number;
  readonly parent: string | undefined;
  readonly isLeaf: boolean;
  readonly deleted: boolean;
  readonly isWinner: boolean;
  /** The column and line of the picture, from 0. */
  readonly column: number;
  readonly line: number;
  /** The revisions between this one and the node before that the picture leaves out. */
  readonly skipped: number;
  /** The node before in the picture. */
  readonly from: string | undefined;
}

/** The generation of a revision. */
export function generation(rev: string): number {
  return Number(rev.slice(0, rev.indexOf('-')));
}

/** The winning branch comes first: not deleted, then the most generations, then the highest revision. */
export function inOrder(branches: readonly Branch[]): Branch[] {
  return [...branches].sort((a, b) => Number(a.deleted) - Number(b.deleted) || generation(b.rev) - generation(a.rev) || (a.rev < b.rev ? 1 : -1));
}

/** The leaves that are not deleted, the winner first. More than one is a conflict. */
export function openLeaves(branches: readonly Branch[]): string[] {
  return inOrder(branches).flatMap(({ rev, deleted }) => (deleted ? [] : [rev]));
}

/** Ancestors beside a leaf that are drawn even if nothing branches there. */
const NEAR = 2;

/** The nodes of the picture. Revisions far from leaves, roots and forks are left out. */
export function layout(branches: readonly Branch[]): TreeNode[] {
  const ordered = inOrder(branches);
  const parents = new Map<string, string | undefined>();
  const children = new Map<string, Set<string>>();
  const lines = new Map<string, number>();
  for (const [line, { path }] of ordered.entries()) {
    for (const [index, rev] of path.entries()) {
      const parent = path[index + 1];
      if (!parents.get(rev)) parents.set(rev, parent);
      if (parent) children.set(parent, (children.get(parent) ?? new Set()).add(rev));
      if (!lines.has(rev)) lines.set(rev, line);
    }
  }
  const drawn = new Set<string>();
  for (const { path } of ordered) {
    for (const rev of path.slice(0, 1 + NEAR)) drawn.add(rev);
    drawn.add(path.at(-1)!);
    for (const rev of path) {
      if ((children.get(rev)?.size ?? 0) < 2) continue;
      drawn.add(rev);
      for (const child of children.get(rev)!) drawn.add(child);
    }
  }
  const generations = [...new Set([...drawn].map(generation))].sort((a, b) => a - b);
  const columns = new Map(generations.map((each, column) => [each, column]));
  const leaves = new Map(ordered.map((branch) => [branch.rev, branch]));
  return [...drawn]
    .sort((a, b) => generation(a) - generation(b) || lines.get(a)! - lines.get(b)!)
    .map((rev) => {
      let [from, skipped] = [parents.get(rev), 0];
      while (from !== undefined && !drawn.has(from)) [from, skipped] = [parents.get(from), skipped + 1];
      return {
        rev,
        generation: generation(rev),
        parent: parents.get(rev),
        isLeaf: leaves.has(rev),
        deleted: leaves.get(rev)?.deleted ?? false,
        isWinner: ordered[0]?.rev === rev,
        column: columns.get(generation(rev))!,
        line: lines.get(rev)!,
        skipped,
        from,
      };
    });
}

/** The last revision that two branches have in common. */
export function commonAncestor(branches: readonly Branch[], a: string, b: string): string | undefined {
  const pathOf = (rev: string) => {
    const branch = branches.find(({ path }) => path.includes(rev));
    return branch ? branch.path.slice(branch.path.indexOf(rev)) : [];
  };
  const others = new Set(pathOf(b));
  return pathOf(a).find((rev) => others.has(rev));
}
