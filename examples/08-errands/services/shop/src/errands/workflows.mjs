import { announce, price, total } from '@errands/contracts';
import { chain, chord, group } from 'outlast/task';

export async function workflows(db, outlast) {
  const cup = price.with({ item: 'cup', count: 2 });
  const teapot = price.with({ item: 'teapot' });
  const [inOrder, beside, added] = await db.transaction(tx =>
    outlast.sendMany(tx, [
      chain(group([cup, teapot]), total, announce), // the last step is run by the other service
      group([cup, teapot]),
      chord([cup, teapot, teapot], total),
    ]),
  );
  console.log('chain:', await inOrder.result());
  console.log('group:', await beside.result());
  console.log('chord:', await added.result());
}
